"""The operator while the control plane itself is in trouble, on a real etcd and API server.

`python -m bench.troubles [TROUBLE...]`. Each trouble is a module: what is done to the control plane, and what must hold
meanwhile and afterwards. Must not be imported by the product.
"""
