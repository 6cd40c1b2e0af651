"""Where parcels go."""
