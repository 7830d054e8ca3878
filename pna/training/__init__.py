"""The engine: many seeds trained at once, stopping, checkpoints, the store. It knows no benchmark."""
