"""The pure decision about an app: facts in, ordered lists of checks and rules, a decision out."""
