const http = require('http');
const [port, size] = process.argv.slice(2).map(Number);
const large = Buffer.alloc(size, 'x');
http.createServer((request, response) => {
  response.end(process.env.BODY === 'buffer' ? large : 'x'.repeat(size));
}).listen(port, '127.0.0.1');
