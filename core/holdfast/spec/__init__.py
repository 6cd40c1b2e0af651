"""The StreamApp: its model, the rules over it, its CRD, and what changing each field costs."""
