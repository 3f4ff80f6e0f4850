/** A value of a parameter. All values of one parameter have the same type. */
export type Value = number | string | boolean;

/** Parameters of a benchmark: a list of values for each name, or a single value. */
export type Parameters = Record<string, Value | readonly Value[]>;

/** One case: a value for every parameter. */
export type Values<P> = {
  [Name in keyof P]: P[Name] extends readonly (infer V)[] ? Widened<V> : Widened<P[Name]>;
};

/** The command line may provide values that the file does not list. */
export type Widened<V> = V extends number ? number : V extends string ? string : V extends boolean ? boolean : never;

export interface Options<P> {
  /** Flags for the node process that measures. */
  flags?: readonly string[];
  /** Decides whether a combination of values is a case. */
  combinationFilter?(values: Values<P>): boolean;
  /** Values for `--test`. */
  test?: Record<string, Value | readonly Value[]>;
  /** Treats `parameters` as a table of groups, each with its own parameters. */
  byGroups?: boolean;
  /** Runs once before the cases of this process are measured. */
  setup?(cases: Values<P>[]): void | Promise<void>;
}

/** Settings of `bench.http`. All have defaults. */
export interface HttpOptions {
  benchmarker?: HttpTool;
  path?: string;
  port?: number;
  host?: string;
  scheme?: 'http' | 'https';
  connections?: number;
  /** Seconds; 10 by default. */
  duration?: number;
  headers?: Record<string, string>;
  /** HTTP/2 without TLS; for `speedwell`. Default: true if `http2` is the file's only HTTP module. */
  http2?: boolean;
  /** HTTP/2: the number of requests, of connections, and of streams on each; for `speedwell` and `h2load`. */
  requests?: number;
  clients?: number;
  maxConcurrentStreams?: number;
  /** The others are for `h2load` only. */
  threads?: number;
  initialWindowSize?: number;
  sessionInitialWindowSize?: number;
  rate?: number;
  ratePeriod?: number;
  timeout?: number;
  headerTableSize?: number;
  encoderHeaderTableSize?: number;
}

export type HttpTool =
  'wrk' | 'autocannon' | 'h2load' | 'speedwell' | 'test-double-http' | 'test-double-https' | 'test-double-http2';

export class Benchmark<P = Parameters> {
  constructor(main: (values: Values<P>) => unknown, parameters: P, options?: Options<P>);
  readonly name: string;
  readonly flags: string[];
  readonly options: Record<string, Value[]>;
  readonly extra_options: Record<string, string>;
  readonly queue: Values<P>[];
  readonly config: Values<P>;
  combinationFilter(values: Values<P>): boolean;
  /** Begins the measured section. */
  start(): void;
  /** Ends the measured section after this many iterations. */
  end(iterations: number): void;
  /** Reports a rate per second that was measured in another way, over this many nanoseconds. */
  report(rate: number, elapsed_ns: bigint): void;
  /** Reports a further metric of this case. */
  metric(name: string, value: number, about?: { unit?: string; better?: 'higher' | 'lower' }): void;
  /** Reports the computed answer, which must be equal for all variants. */
  check(answer: unknown): void;
  /** Measures a server with an HTTP tool; calls `done` with the tool's status when it has ended. */
  http(options: HttpOptions, done?: (status: number | undefined) => void): void;
}

/** Describes a benchmark: `main` is called in a fresh process for one case. */
export function createBenchmark<P extends Parameters>(
  main: (values: Values<P>) => unknown, parameters: P, options?: Options<P>): Benchmark<P>;
export function createBenchmark(
  main: (values: Record<string, Value>) => unknown, groups: Record<string, Parameters>,
  options: Options<Record<string, Value>> & { byGroups: true }): Benchmark<Record<string, Value>>;

/** Sends a message to the parent process, or prints a report if there is none. */
export function sendResult(data: object): void;

/** An internal binding of node. */
export function binding(name: string): any;

/** 200 copies of a sample URL (or the URLs of the web platform tests), doubled `e` times. */
export function bakeUrlData(type: string, e?: number, withBase?: boolean, asUrl?: boolean):
  string[] | [string, string | undefined][] | URL[];

export const PORT: number;
export const buildType: 'Debug' | 'Release';
export const urls: Record<string, string>;
export const urlDataTypes: string[];
export const searchParams: Record<string, string>;
/** The first HTTP tool that is installed. */
export const default_http_benchmarker: HttpTool | undefined;
