'use strict';

// Converts the call frames of a paused program to plain data: functions, locations, variables as text. Everything
// is limited, because it happens at each pause and a program can contain anything.

const FRAMES = 20;
const VARIABLES = 50;
const LETTERS = 200;

// V8's name for all objects that it has handed out during a pause, including their properties. Released after each
// pause: otherwise the session would keep the objects alive.
const GROUP = 'backtrace';

const SCOPES = new Set(['local', 'block', 'catch', 'closure']);

// `scripts` maps ids to the scripts' locations; `command(method, parameters)` queries the session and returns its
// response.
function statesAt(callFrames, scripts, command) {
  const frames = callFrames.slice(0, FRAMES).map((frame) => {
    const { scriptId, lineNumber, columnNumber = 0 } = frame.location;
    const url = scripts.get(scriptId) ?? '';
    return {
      function: frame.functionName || '(anonymous)',
      place: `${url}:${lineNumber + 1}:${columnNumber + 1}`,
      // Node's own variables do not help to understand a crash.
      variables: url.startsWith('node:') ? {} : variablesOf(frame, command),
    };
  });
  command('Runtime.releaseObjectGroup', { objectGroup: GROUP });
  return frames;
}

// Inner scopes come first; variables that they shadow stay hidden.
function variablesOf(frame, command) {
  const variables = {};
  for (const scope of frame.scopeChain) {
    if (!SCOPES.has(scope.type)) continue;
    const { result } = command('Runtime.getProperties', {
      objectId: scope.object.objectId,
      ownProperties: true,
      generatePreview: true,
    });
    for (const { name, value } of result) {
      if (Object.hasOwn(variables, name)) continue;
      if (Object.keys(variables).length === VARIABLES) return variables;
      variables[name] = shown(value);
    }
  }
  return variables;
}

// A variable before its declaration has no value. An object's first properties are more informative than its class.
function shown(value) {
  if (value === undefined) return '(no value)';
  if (value.type === 'string') return cut(JSON.stringify(value.value));
  const text = value.description ?? String(value.value);
  const { properties = [], overflow } = value.preview ?? {};
  if (properties.length === 0) return cut(text);
  const inside = properties.map((property) => `${property.name}: ${property.value}`);
  return cut(`${text} { ${inside.join(', ')}${overflow ? ', ...' : ''} }`);
}

function cut(text) {
  return text.length > LETTERS ? `${text.slice(0, LETTERS)}...` : text;
}

module.exports = { statesAt };
