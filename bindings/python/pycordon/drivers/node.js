// SPDX-License-Identifier: Apache-2.0
// The driver of JavaScript interpreters. It runs inside node, in the process of the user's code.
//
// The host (_channel.py has the protocol) sends this text through the channel; LIMIT and require are
// its arguments. Code is evaluated by V8's inspector in REPL mode, as the console of a browser does it:
// const and let may be declared again, and await works at the top level. Whatever the code does to
// globals and prototypes must not confuse the driver, so it keeps its own references to what it calls.
//
// An interrupt ends code that computes (a script with breakOnSigint around the evaluation) or that is
// awaited. Code that computes after an await cannot be interrupted: the host ends the process then.
'use strict';
const fs = require('fs');
const net = require('net');
const vm = require('vm');
const util = require('util');
const { Session } = require('inspector');
const { _initPaths: initPaths } = require('module');

const { env } = process;

const { writeSync, fstatSync } = fs;
const { inspect } = util;
const { parse, stringify } = JSON;
const { concat, from } = Buffer;
const apply = Function.prototype.call.bind(Function.prototype.apply);
const bound = (f) => Function.prototype.call.bind(f);
const indexOf = bound(Uint8Array.prototype.indexOf);
const slice = bound(Buffer.prototype.subarray);
const toText = bound(Buffer.prototype.toString);
const split = bound(String.prototype.split);
const cut = bound(String.prototype.slice);
const push = bound(Array.prototype.push);
const set = Reflect.set;
const post = bound(Session.prototype.post);
const { ownKeys } = Reflect;
const kill = process.reallyExit.bind(process);
const later = setTimeout;
const BUNDLE = Symbol.for('pycordon.bundle');
const TEXT_LIMIT = Math.min(1 << 20, Math.floor(LIMIT / 4));
const DISPLAYS_MAX = 10000;
const FD = 3;
const own = fstatSync(FD);

const session = new Session();
session.connect();

let token = '';
let count = 0;
let displays = 0; // of this request: how many ...
let shown = 0; // ... and their bytes
let signals = 0;
let isEnding = false; // the request, as soon as its output is out
const outputs = [process.stdout, process.stderr];
const write = bound(process.stdout.write);
let interrupt = null; // ends what is awaited
let input = from('');

// JSON by hand: of an object, JSON.stringify() would ask what code has put on the prototypes.
function headOf(fields) {
  let text = '';
  const names = ownKeys(fields);
  for (let i = 0; i < names.length; i++) {
    const value = fields[names[i]];
    let said = typeof value === 'string' ? stringify(value) : `${value}`;
    if (typeof value === 'object') {
      said = '';
      for (let j = 0; j < value.length; j++) said += (j === 0 ? '' : ',') + stringify(`${value[j]}`);
      said = `[${said}]`;
    }
    text += `"${names[i]}":${said},`;
  }
  return text;
}

function send(id, fields, parts) {
  const all = [null];
  let sizes = '';
  for (let i = 0; i < parts.length; i++) {
    sizes += `${i === 0 ? '' : ','}${parts[i].length}`;
    all[i + 1] = parts[i];
  }
  all[0] = from(`${id} {${headOf(fields)}"parts":[${sizes}]}\n`);
  let data = concat(all);
  let where;
  try {
    where = fstatSync(FD);
  } catch {
    kill(0);
  }
  if (where.ino !== own.ino || where.dev !== own.dev) kill(0);
  while (data.length > 0) {
    try {
      data = slice(data, writeSync(FD, data));
    } catch (error) {
      if (error.code !== 'EAGAIN') kill(0);
    }
  }
}

// --- values ------------------------------------------------------------------------------------

function bytes(mime, value) {
  if (value instanceof Uint8Array) return from(value);
  if (typeof value === 'string' && !mime.endsWith('json')) {
    if (mime.startsWith('image/') && mime !== 'image/svg+xml') return from(value, 'base64');
    return from(value);
  }
  return from(stringify(value) ?? 'null');
}

// The plain form, and what the value offers besides: [Symbol.for('pycordon.bundle')]() or JSON.
function bundleOf(value) {
  let text = from(inspect(value));
  if (text.length > TEXT_LIMIT) text = concat([slice(text, 0, TEXT_LIMIT), from('...')]);
  const bundle = [['text/plain', text]];
  let room = LIMIT - text.length;
  const add = (mime, data) => {
    if (data.length <= room) {
      room -= data.length;
      push(bundle, [mime, data]);
    }
  };
  if (value !== null && typeof value === 'object') {
    const make = value[BUNDLE];
    if (typeof make === 'function') {
      const given = apply(make, value, []);
      for (const mime of Object.keys(given)) add(mime, bytes(mime, given[mime]));
    } else if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) {
      try {
        add('application/json', from(stringify(value)));
      } catch {
        // a cycle, a BigInt
      }
    }
  }
  return bundle;
}

// One half of each pair.
function halves(pairs, which) {
  const found = [];
  for (let i = 0; i < pairs.length; i++) found[i] = pairs[i][which];
  return found;
}

function display(value, raw) {
  const bundle = raw ? Object.keys(value).map((mime) => [mime, bytes(mime, value[mime])]) : bundleOf(value);
  if (!token) return;
  displays += 1;
  for (let i = 0; i < bundle.length; i++) shown += bundle[i][1].length;
  if (displays > DISPLAYS_MAX || shown > LIMIT) throw new RangeError('more is displayed than one execution may (max_output)');
  send(token, { type: 'display', mimes: halves(bundle, 0) }, halves(bundle, 1));
}

// --- executing ---------------------------------------------------------------------------------

// What the inspector found, as the value itself: it passes through `taken`.
let taken;
const takeId = (() => {
  globalThis.__cordon_take = (value) => {
    taken = value;
  };
  let id;
  post(session, 'Runtime.evaluate', { expression: '__cordon_take', objectGroup: 'cordon' }, (error, got) => {
    id = got.result.objectId;
  });
  delete globalThis.__cordon_take;
  return id;
})();

function valueOf(remote) {
  if (remote.objectId === undefined) {
    if (remote.type === 'undefined') return undefined;
    if (remote.subtype === 'null') return null;
    if (remote.unserializableValue === undefined) return remote.value;
  }
  taken = undefined;
  const argument = remote.objectId === undefined
    ? { unserializableValue: remote.unserializableValue } : { objectId: remote.objectId };
  post(session, 'Runtime.callFunctionOn', {
    objectId: takeId, functionDeclaration: 'function (value) { this(value); }', arguments: [argument],
  }, () => {});
  const value = taken;
  taken = undefined;
  return value;
}

function describe(error) {
  let name = 'Error';
  let value = '';
  let trace = '';
  try {
    if (error instanceof Error || util.types.isNativeError(error)) {
      name = `${error.name}`;
      value = `${error.message}`;
      trace = `${error.stack}`;
      // From the user's last line on, nothing of this driver.
      trace = split(trace, '\n').filter((line) => !/\(cordon:|at cordon:|node:/.test(line)).join('\n');
    } else {
      value = inspect(error);
      trace = `Uncaught ${value}`;
    }
  } catch {
    value = '<it cannot be shown>';
  }
  return [from(cut(name, 0, 1000)), from(cut(value, 0, TEXT_LIMIT)), from(cut(trace, 0, TEXT_LIMIT))];
}

const INTERRUPTED = [from('KeyboardInterrupt'), from('interrupted'), from('KeyboardInterrupt: interrupted')];

// Two things that node itself stumbles over do not outlive the code that sets them: without an
// iterator for arrays it reads no more from the channel, and this toJSON changes what it tells V8.
const { defineProperty, deleteProperty } = Reflect;
const ARRAY = Array.prototype;
const OBJECT = Object.prototype;
const ITERATOR = Symbol.iterator;
const values = ARRAY.values;
const iterator = { __proto__: null, value: values, writable: true, enumerable: false, configurable: true };

function mend() {
  const fine = ARRAY[ITERATOR] === values || defineProperty(ARRAY, ITERATOR, iterator);
  if (!fine || (OBJECT.toJSON !== undefined && !deleteProperty(OBJECT, 'toJSON'))) kill(71);
}

// Output that node still holds goes out before the host hears that all is done.
function flushed(streams, then) {
  for (let i = 0; i < streams.length; i++) {
    const stream = streams[i];
    if (!stream.destroyed && stream.writableLength > 0) {
      write(stream, '', () => flushed(streams, then));
      return;
    }
  }
  then();
}

function finish(id, parts, fields) {
  if (token !== id || isEnding) return; // it has been interrupted
  interrupt = null;
  isEnding = true;
  mend();
  flushed(outputs, () => {
    isEnding = false;
    token = '';
    send(id, { type: 'end', count, signals, ...fields }, parts);
  });
}

function fail(id, error) {
  finish(id, describe(error), { error: 'error' });
}

function settle(id, error, got) {
  if (token !== id) return;
  try {
    if (error) return fail(id, error);
    const value = valueOf(got.exceptionDetails ? got.exceptionDetails.exception ?? {} : got.result);
    if (got.exceptionDetails) return fail(id, value);
    if (value === undefined) return finish(id, [], { mimes: [] });
    const bundle = bundleOf(value);
    finish(id, halves(bundle, 1), { mimes: halves(bundle, 0) });
  } catch (thrown) {
    fail(id, thrown);
  }
}

let call = null; // what the script below calls
globalThis.__cordon_call = () => call();
const guarded = (() => {
  const script = new vm.Script('((call) => () => call())(__cordon_call)', { filename: 'cordon' });
  const inner = script.runInThisContext();
  delete globalThis.__cordon_call;
  globalThis.__cordon_call = inner;
  const outer = new vm.Script('__cordon_call()', { filename: 'cordon' });
  return (work) => {
    globalThis.__cordon_call = inner;
    call = () => {
      delete globalThis.__cordon_call;
      work();
    };
    outer.runInThisContext({ breakOnSigint: true, displayErrors: false });
  };
})();
delete globalThis.__cordon_call;

function execute(id, code) {
  count += 1;
  displays = shown = 0;
  let isBack = false;
  interrupt = () => finish(id, INTERRUPTED, { error: 'interrupt' });
  try {
    guarded(() => {
      post(session, 'Runtime.evaluate', {
        expression: `${code}\n//# sourceURL=cell-${count}`, replMode: true, awaitPromise: false, generatePreview: false,
        userGesture: false, objectGroup: 'result',
      }, (error, got) => {
        isBack = true;
        settle(id, error, got);
      });
    });
  } catch (error) {
    if (error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') {
      signals += 1;
      finish(id, INTERRUPTED, { error: 'interrupt' });
    } else if (!isBack) {
      fail(id, error);
    }
  }
}

// --- requests ----------------------------------------------------------------------------------

function setVars(data) {
  while (data.length > 0) {
    const end = indexOf(data, 10);
    const head = parse(toText(slice(data, 0, end)));
    set(globalThis, head.name, parse(toText(slice(data, end + 1, end + 1 + head.size))));
    data = slice(data, end + 1 + head.size);
  }
}

// Directories of packages come before what is in variables.
function addPackages(data) {
  const { variables } = parse(toText(data));
  const names = ownKeys(variables);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    env[name] = env[name] ? `${variables[name]}:${env[name]}` : variables[name];
  }
  initPaths();
}

function getVar(id, name) {
  post(session, 'Runtime.evaluate', { expression: name, replMode: true }, (error, got) => {
    if (error || got.exceptionDetails) return refuse(id, 'NameError', `${name} is not defined`);
    const text = stringify(valueOf(got.result));
    if (text === undefined) return refuse(id, 'TypeError', `${name} has no JSON form`);
    send(id, { type: 'value', kind: 'json' }, [from(text)]);
  });
}

function refuse(id, name, text) {
  send(id, { type: 'refused' }, [from(name), from(cut(text, 0, TEXT_LIMIT))]);
}

function sync(id, expected, tries) {
  if (signals >= expected || tries === 0) send(id, { type: 'value', kind: 'none' }, []);
  else later(() => sync(id, expected, tries - 1), 1);
}

function answer(kind, id, data) {
  if (kind === 'exec') {
    token = id;
    execute(id, toText(data));
    return;
  }
  try {
    if (kind === 'set') {
      setVars(data);
      send(id, { type: 'value', kind: 'none' }, []);
    } else if (kind === 'packages') {
      addPackages(data);
      send(id, { type: 'value', kind: 'none' }, []);
    } else if (kind === 'get') getVar(id, toText(data));
    else sync(id, +toText(data), 200);
  } catch (error) {
    refuse(id, 'TypeError', `${error}`);
  }
}

function take(data) {
  input = concat([input, data]);
  for (;;) {
    const end = indexOf(input, 10);
    if (end < 0) return;
    const [kind, id, size] = split(toText(slice(input, 0, end)), ' ');
    if (input.length < end + 1 + +size) return;
    const payload = slice(input, end + 1, end + 1 + +size);
    input = slice(input, end + 1 + +size);
    answer(kind, id, payload);
  }
}

process.on('SIGINT', () => {
  signals += 1;
  if (interrupt) interrupt();
});
// As in a REPL, an error that nobody waits for does not end it.
process.on('uncaughtException', (error) => {
  if (token) fail(token, error);
  else process.stderr.write(`Uncaught ${inspect(error)}\n`);
});
Object.defineProperty(globalThis, 'display', { value: display, configurable: true, writable: true });
const channel = new net.Socket({ fd: FD, readable: true, writable: false });
channel.on('data', take);
channel.on('close', () => kill(0));
channel.on('error', () => kill(0));
send('-', { type: 'hello', version: process.version }, []);
