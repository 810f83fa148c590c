// SPDX-License-Identifier: Apache-2.0
// A dependency that does more than it should: node --require hostile.cjs. HOSTILE says what to reach:
// {secret, marker, port}. What it gets goes to the listener at that port and to the marker.
const fs = require("node:fs");
const net = require("node:net");

const { secret, marker, port } = JSON.parse(process.env.HOSTILE);
let found = "nothing";
try {
	found = fs.readFileSync(secret, "utf8");
} catch {}
try {
	fs.writeFileSync(marker, found);
} catch {}
net.connect(port, "127.0.0.1").on("error", () => {}).end(`found ${found}`);
process.stderr.write(`hostile code has run and found ${found}\n`);
