"""What a lane asks: prompts that are timed, canaries that must pass first, tasks that are scored."""
