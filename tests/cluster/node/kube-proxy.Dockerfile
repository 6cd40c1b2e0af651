# kube-proxy calls iptables, so it alone of the cluster's own programs needs a system around it.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS system
RUN apt-get update \
 && apt-get install -y --no-install-recommends iptables nftables conntrack ipset kmod libcap2 \
 && apt-get clean && rm -rf /var/lib/apt/lists/*

FROM system
COPY kube-proxy /usr/local/bin/kube-proxy
ENTRYPOINT ["/usr/local/bin/kube-proxy"]
