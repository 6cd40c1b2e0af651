"""The pure decision about an app, made from facts by ordered lists of checks and rules."""
