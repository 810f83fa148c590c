# SPDX-License-Identifier: Apache-2.0
"""The names of the simulated internet. Tests add their own."""

RETRY = "93.184.216.60"  # a TLS server that wants a second hello
SITE = {"A": ["93.184.216.34"], "AAAA": ["2606:2800:220:1::1"]}


def at(*addresses, **more):
    entry = {"A": [a for a in addresses if ":" not in a], "AAAA": [a for a in addresses if ":" in a]}
    return {**entry, **more}


ZONE = {
    "example.com": {**SITE, "TXT": ["a text"], "HTTPS": ["0001000000"]},
    "www.example.com": at("93.184.216.35"),
    "a.b.example.com": at("93.184.216.36"),
    "secret.example.com": at("93.184.216.37"),
    "notexample.com": at("151.101.1.70"),
    "evil.example": at("151.101.1.69"),
    "*.evil.example": at("151.101.1.69"),
    "git.example": at("140.82.112.3"),
    "pypi.example": at("151.101.0.223"),
    "npm.example": at("104.16.0.35"),
    "ssh.example": at("140.82.112.22"),
    "smtp.example": at("142.250.1.26"),
    "db.example": at("52.1.2.3"),
    "v4only.example": at("93.184.216.41"),
    "v6only.example": at("2606:2800:220:1::6"),
    "xn--bcher-kva.example": at("93.184.216.42"),
    "retry.example": at(RETRY),
    # the manners of servers
    "chain.example": {"CNAME": "c1.example"},
    "c1.example": {"CNAME": "c2.example"},
    "c2.example": {"CNAME": "c3.example"},
    "c3.example": at("93.184.216.43"),
    "to-evil.example": {"CNAME": "evil.example"},
    "far-from-evil.example": {"CNAME": "through-evil.example"},
    "through-evil.example": {"CNAME": "sub.evil.example"},
    "past-evil.example": {"CNAME": "left-evil.example"},
    "left-evil.example": {"CNAME": "c3.example"},
    "loop-chain.example": {"CNAME": "loop-chain.example"},
    "nodata.example": {},
    "servfail.example": {"rcode": 2},
    "silent.example": at("93.184.216.44", how="silent"),
    "slow.example": at("93.184.216.45", how="delay"),
    "truncated.example": at("93.184.216.46", how="truncate"),
    "wrong-id.example": at("93.184.216.47", how="wrong-id"),
    "spoofed.example": at("93.184.216.48", how="spoof"),
    # addresses that are not of the public internet
    "loop.example": at("127.0.0.1"),
    "loop2.example": at("127.9.9.9"),
    "loop6.example": at("::1"),
    "zero.example": at("0.0.0.0"),
    "private.example": at("10.1.2.3"),
    "private172.example": at("172.16.5.6"),
    "private192.example": at("192.168.7.8"),
    "metadata.example": at("169.254.169.254"),
    "cgnat.example": at("100.100.100.200"),
    "ula.example": at("fd00:ec2::254"),
    "mapped.example": at("::ffff:127.0.0.1"),
    "mapped-private.example": at("::ffff:10.1.2.3"),
    "compatible.example": at("::7f00:1"),
    "nat64.example": at("64:ff9b::7f00:1"),
    "nat64-private.example": at("64:ff9b::a01:203"),
    "sixtofour.example": at("2002:7f00:1::1"),
    "teredo.example": at("2001:0:a01:203::1"),
    "alias-private.example": {"CNAME": "private.example"},
    "home.example": at("203.0.113.2"),
    "self.example": at("93.184.77.77"),  # public by number, and this machine's own
    "second.example": at("93.184.76.2"),
    "second6.example": at("2606:2800:76::2"),
    "any.example": at("93.184.78.9"),
    "any6.example": at("2606:2800:78::9"),
    "mixed.example": at("10.1.2.3", "93.184.216.49"),
    "rebind.example": {"ttl": 0, "alternate": {"A": [["93.184.216.50"], ["127.0.0.1"]]}},
}
# Public by number, and this machine's own: the second address of a device, and by a route only.
OWN = {
    "second.example": "93.184.76.2", "second6.example": "2606:2800:76::2",
    "any.example": "93.184.78.9", "any6.example": "2606:2800:78::9",
}  # fmt: skip
# Those of them whose address answers in the world, too: the positive control dials them.
PRIVATE = {
    "private.example": "10.1.2.3", "private172.example": "172.16.5.6", "private192.example": "192.168.7.8",
    "metadata.example": "169.254.169.254", "cgnat.example": "100.100.100.200", "ula.example": "fd00:ec2::254",
    "nat64.example": "64:ff9b::7f00:1", "nat64-private.example": "64:ff9b::a01:203",
    "sixtofour.example": "2002:7f00:1::1", "teredo.example": "2001:0:a01:203::1",
    "alias-private.example": "10.1.2.3", "mapped-private.example": "10.1.2.3",
}  # fmt: skip
LOOPBACK = ["loop.example", "loop2.example", "loop6.example", "mapped.example", "zero.example"]
