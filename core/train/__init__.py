"""Fine-tuning on this machine: data, LoRA, losses, the loop, and the adapter that comes of it."""
