"""The command `holdfast state`: what an app remembers, on this host or in the checkpoint of an app on a cluster."""
