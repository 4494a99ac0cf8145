"""The OpenAI protocol: requests read and checked, answers in its shapes, whole or streamed."""
