// SPDX-License-Identifier: Apache-2.0
// The TypeScript SDK as a client of `cordon mcp`.
//
//	node client.mjs SDK WORKSPACE CORDON
//
// SDK is 1 (the package of 1.x), or legacy, auto or 2026-07-28 (the modes of 2.x). Every case runs; what it saw
// is printed as one JSON object, for test_clients.py to judge.

import fs from "node:fs";

const [sdk, workspace, cordon] = process.argv.slice(2);
const root = sdk === "1" ? "@modelcontextprotocol/sdk" : "@modelcontextprotocol/client";
const { Client } = await import(sdk === "1" ? `${root}/client/index.js` : root);
const { StdioClientTransport } = await import(sdk === "1" ? `${root}/client/stdio.js` : `${root}/stdio`);
const { AjvJsonSchemaValidator } = await import(sdk === "1" ? `${root}/validation/ajv` : `${root}/validators/ajv`);
const ENOUGH_MS = 60000;

async function connected(words, work) {
	const mode = sdk === "legacy" || sdk === "auto" ? sdk : { pin: sdk };
	const client = new Client({ name: "test", version: "1" }, sdk === "1" ? {} : { versionNegotiation: { mode } });
	await client.connect(new StdioClientTransport({ command: cordon, args: ["mcp", ...words] }));
	const call = (name, args, options) => {
		const all = { timeout: ENOUGH_MS, ...options };
		return sdk === "1"
			? client.callTool({ name, arguments: args }, undefined, all)
			: client.callTool({ name, arguments: args }, all);
	};
	try {
		return await work(client, call);
	} finally {
		await client.close();
	}
}

// Whether a process of this machine has been started with that word.
function isRunning(word) {
	return fs.readdirSync("/proc").some((pid) => {
		try {
			return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(word);
		} catch {
			return false;
		}
	});
}

async function isGone(word) {
	for (const end = Date.now() + ENOUGH_MS; Date.now() < end; ) {
		if (!isRunning(word)) return true;
		await new Promise((resolve) => setTimeout(resolve, 20));
	}
	return false;
}

const cases = {
	list: () =>
		connected([], async (client) => ({
			server: client.getServerVersion(),
			tools: (await client.listTools()).tools,
		})),

	// Each tool's structured content against its own schema, and, as the control, with a member of another type.
	schemas: () =>
		connected(["--workspace", workspace, "--allow-commit"], async (client, call) => {
			const tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, tool]));
			const checked = {};
			const check = async (name, args) => {
				const got = await call(name, args);
				const schema = tools.get(name).outputSchema;
				const isValid = new AjvJsonSchemaValidator().getValidator(schema);
				const [first] = Object.keys(schema.properties ?? {});
				const other = first && schema.properties[first].type === "object" ? 1 : {};
				// A schema that names no member still asks for an object.
				const wrong = first ? { ...got.structuredContent, [first]: other } : [];
				checked[name] = {
					isValid: isValid(got.structuredContent).valid,
					isWrongValid: isValid(wrong).valid,
					isError: got.isError === true,
					data: got.structuredContent,
				};
				return got.structuredContent;
			};
			await check("run_command", { command: "echo hi; exit 3" });
			await check("run_code", { code: "print(1)" });
			await check("write_file", { path: "a", content: "x" });
			await check("edit_file", { path: "a", old_text: "x", new_text: "y" });
			await check("read_file", { path: "a" });
			await check("list_files", {});
			await check("workspace_diff", {});
			await check("get_limits", {});
			const { session } = await check("create_session", {});
			await check("execute", { session, code: "6 * 7" });
			await check("close_session", { session });
			await check("workspace_commit", {});
			return { all: [...tools.keys()], checked };
		}),

	errors: () =>
		connected([], async (client, call) => {
			const wrong = await call("run_command", { command: 1 });
			const unknown = await call("no_such_tool", {}).then(
				(got) => `answered: ${JSON.stringify(got)}`,
				(error) => error.code,
			);
			return { wrong: wrong.isError, unknown };
		}),

	progress: () =>
		connected([], async (client, call) => {
			const told = [];
			const options = { onprogress: (one) => told.push(one), timeout: ENOUGH_MS };
			const got = await call("run_command", { command: "echo 1; sleep 0.6; echo 2" }, options);
			return { told, stdout: got.structuredContent.stdout };
		}),

	cancel: () =>
		connected([], async (client, call) => {
			const word = `600.${process.pid}`;
			const abort = new AbortController();
			let wasRunning;
			const onprogress = () => {
				wasRunning ??= isRunning(word);
				abort.abort("enough");
			};
			const options = { signal: abort.signal, onprogress, timeout: ENOUGH_MS };
			const command = `sleep ${word} & echo begun; sleep ${word}`;
			const ended = await call("run_command", { command }, options).then(
				() => "answered",
				() => "rejected",
			);
			const gone = await isGone(word);
			const next = await call("run_command", { command: "echo next" });
			return { wasRunning, ended, gone, next: next.structuredContent.stdout };
		}),

	session: () =>
		connected([], async (client, call) => {
			const { session } = (await call("create_session", {})).structuredContent;
			await call("execute", { session, code: "x = 6" });
			const kept = (await call("execute", { session, code: "x * 7" })).structuredContent;
			const png = "class P:\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\nxyz'\nP()";
			const { content } = await call("execute", { session, code: png });
			const failed = await call("execute", { session, code: "1 / 0" });
			const closed = (await call("close_session", { session })).structuredContent;
			const after = await call("execute", { session, code: "x" });
			return {
				result: kept.result,
				images: content.filter((item) => item.type === "image"),
				failed: failed.isError,
				error: failed.structuredContent?.error?.name,
				closed,
				after: after.isError,
			};
		}),

	parallel: () =>
		connected([], async (client, call) => {
			const numbers = [...Array(30).keys()];
			const got = await Promise.all(numbers.map((n) => call("run_command", { command: `echo ${n}` })));
			return got.map((one) => one.structuredContent.stdout);
		}),
};

const seen = {};
for (const [name, run] of Object.entries(cases)) {
	try {
		seen[name] = await run();
	} catch (error) {
		seen[name] = { threw: String(error?.stack ?? error) };
	}
}
console.log(JSON.stringify(seen));
