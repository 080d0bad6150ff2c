// @modelcontextprotocol/sdk 1.x, over HTTP with a fixed header and over standard input and output.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { check, command, endpoint, headers } from './checks.js';

for (const [label, transport] of [
  ['sdkhttp', new StreamableHTTPClientTransport(endpoint, { requestInit: { headers } })],
  ['sdkstdio', new StdioClientTransport(command)],
]) {
  const client = new Client({ name: 'peer', version: '1.0.0' });
  await client.connect(transport);
  await check(label, client);
}
