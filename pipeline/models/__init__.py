"""What writes text: local transformers, OpenAI-compatible servers, a scripted expert."""
