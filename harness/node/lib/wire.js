'use strict';

// The framing of Speedwell's harness protocol: one message is one line, `verb TAB key=value TAB key=value`. Bytes that
// would break the framing are written %XX, as docs/reference/protocol.md says. Also the writing of whole texts to a descriptor.
// This file knows nothing of verbs.

const fs = require('fs');

/** No line may be longer than 1 MiB. Text is cut well below it, because UTF-8 may need three bytes per unit. */
const LIST_BUDGET = 200000;
const TEXT_LIMIT = 100000;

/** How long to wait for a reader that is behind. */
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

/** Undoes the escapes; one that is not two hex digits stays as it is. */
function decodeText(text) {
  if (!text.includes('%')) return text;
  return text.replace(/(?:%[0-9a-fA-F]{2})+/g, (escapes) => {
    return Buffer.from(escapes.replaceAll('%', ''), 'hex').toString('utf8');
  });
}

/** Items of a list value that has not been decoded yet. The empty text is the empty list. */
function decodeList(text) {
  return text === '' ? [] : text.split(',').map(decodeText);
}

/**
 * The lines of one message. A value that is an array becomes a list. Lists that would make the line too long are
 * continued in further lines of the same verb; all but the last carry `more=1`. Undefined values are left out.
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

/** As many further items of `list` as fit into `budget` characters; an empty list is named in the first line. */
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
 * `{ verb, fields }` of one line. Values stay encoded, because only the reader of a key knows whether it is a list:
 * decode with `decodeText` or `decodeList`.
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
 * Writes all of `text` before it returns: events must be out before user code runs on, and while a process is ending
 * nothing asynchronous works any more. A full non-blocking pipe answers EAGAIN and is waited for; a reader that has
 * gone (EPIPE) is nobody's loss.
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
