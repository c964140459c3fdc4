"""Linux: namespaces, links, nftables, conntrack."""
