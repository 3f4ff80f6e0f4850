// Runs in the loader's thread of Node 20 and 22: answers one name with one address, as lib/resolve.js tells it.

let name;
let url;

export function initialize(data) {
  ({ name, url } = data);
}

export async function resolve(specifier, context, next) {
  if (specifier === name) return { url, format: 'commonjs', shortCircuit: true };
  return next(specifier, context);
}
