"""Commands on the apps of a cluster: status, logs, drain, resume; and the client they share."""
