"""What happens while something compiles, as events."""
