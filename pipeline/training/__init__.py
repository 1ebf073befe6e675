"""Fine-tuning: exported rows become ids and labels, and a student comes out of accelerate launch."""
