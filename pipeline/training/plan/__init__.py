"""What a recipe's training will take, before anything is loaded: memory, time, cost."""
