"""Why: where records come from and go to: one protocol, and the systems that speak it."""
