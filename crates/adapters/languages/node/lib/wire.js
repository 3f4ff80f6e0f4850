'use strict';

// The framing of Speedwell's harness protocol: one message is one line, `verb TAB key=value TAB key=value`. Bytes that
// would break the framing are written %XX; see docs/reference/protocol.md. Also writes whole texts to a descriptor.
// Independent of verbs.

const fs = require('fs');

/** A line may be at most 1 MiB long. Text is split well below it, because UTF-8 may need three bytes per unit. */
const LIST_BUDGET = 200000;
const TEXT_LIMIT = 100000;

/** Retry interval for a slow reader. */
const RETRY_MS = 1;

const UNSAFE = /[\x00-\x1f%\x7f]/g;
const UNSAFE_IN_LIST = /[\x00-\x1f%\x7f,]/g;

function escape(character) {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}

function encodeText(value) {
  return String(value).slice(0, TEXT_LIMIT).replace(UNSAFE, escape);
}

function encodeItem(value) {
  return String(value).slice(0, TEXT_LIMIT).replace(UNSAFE_IN_LIST, escape);
}

/** Decodes the escapes; a `%` without two hex digits stays as it is. */
function decodeText(text) {
  if (!text.includes('%')) return text;
  return text.replace(/(?:%[0-9a-fA-F]{2})+/g, (escapes) => {
    return Buffer.from(escapes.replaceAll('%', ''), 'hex').toString('utf8');
  });
}

/** Splits and decodes a list value. The empty text is the empty list. */
function decodeList(text) {
  return text === '' ? [] : text.split(',').map(decodeText);
}

/**
 * Returns the lines of one message. An array becomes a list. Lists that would make the line too long continue in
 * further lines with the same verb; all but the last have `more=1`. Undefined values are omitted.
 */
function encode(verb, fields) {
  const plain = [];
  const lists = [];
  for (const [key, value] of Object.entries(fields)) {
    if (Array.isArray(value)) lists.push({ key, items: value.map(encodeItem), next: 0 });
    else if (value !== undefined) plain.push(`${key}=${encodeText(value)}`);
  }
  const lines = [];
  do {
    const parts = [verb, ...plain];
    let budget = LIST_BUDGET;
    for (const list of lists) {
      const { text, used } = takeItems(list, budget, lines.length === 0);
      budget -= used;
      if (text !== undefined) parts.push(`${list.key}=${text}`);
    }
    if (lists.some(({ items, next }) => next < items.length)) parts.push('more=1');
    lines.push(parts.join('\t'));
  } while (lists.some(({ items, next }) => next < items.length));
  return lines;
}

/** Takes as many further items of `list` as fit into `budget` characters; the first line names an empty list. */
function takeItems(list, budget, first) {
  const begin = list.next;
  let used = 0;
  while (list.next < list.items.length && (used === 0 || used + list.items[list.next].length < budget)) {
    if (budget <= 0) break;
    used += list.items[list.next].length + 1;
    list.next++;
  }
  if (begin === list.next) return { text: first && list.items.length === 0 ? '' : undefined, used };
  return { text: list.items.slice(begin, list.next).join(','), used };
}

/**
 * Decodes one line to `{ verb, fields }`. Values stay encoded, because only the reader of a key knows whether it is a
 * list: decode them with `decodeText` or `decodeList`.
 */
function decode(line) {
  const [verb, ...rest] = line.split('\t');
  const fields = Object.create(null);
  for (const field of rest) {
    const equals = field.indexOf('=');
    if (equals > 0) fields[field.slice(0, equals)] = field.slice(equals + 1);
  }
  return { verb, fields };
}

/**
 * Writes all of `text` before it returns: events must be out before user code continues, and asynchronous writes do not
 * work while a process is exiting. A full non-blocking pipe returns EAGAIN and is retried; EPIPE is ignored.
 */
function writeAll(descriptor, text) {
  const bytes = Buffer.from(text, 'utf8');
  for (let sent = 0; sent < bytes.length;) {
    try {
      sent += fs.writeSync(descriptor, bytes, sent);
    } catch (error) {
      if (error.code === 'EPIPE') return;
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}

Object.assign(exports, { encode, decode, decodeText, decodeList, writeAll });
