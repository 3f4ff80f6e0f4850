'use strict';

// Decides how a result leaves the process: as a message if there is a channel to a parent, else as one line of text on
// stdout. Message and line are identical to those of Node core's benchmarks, because programs and spreadsheets parse
// them. In a process that a harness drives, the harness sends the results instead (lib/harness/measure.js).

/** Time for a process to finish its own cleanup after its report; then it is ended. */
const LINGER_MS = 5000;

/** Formats nanoseconds (BigInt) as seconds with exactly nine decimals, as text because a double would lose digits. */
function secondsText(elapsed_ns) {
  const digits = elapsed_ns.toString().padStart(10, '0');
  return `${digits.slice(0, -9)}.${digits.slice(-9)}`;
}

/** JavaScript's text of a number with a comma before every three digits of the integer part. */
function groupedNumber(number) {
  const text = String(number);
  const point = text.indexOf('.');
  const integerPart = point < 0 ? text : text.slice(0, point);
  const fraction = point < 0 ? '' : text.slice(point);
  return integerPart.replace(/\d(?=(?:\d{3})+(?!\d))/g, '$&,') + fraction;
}

/** The line printed for a report: `NAME k=JSON k=JSON: RATE`. */
function reportLine({ name, conf, rate }) {
  const values = Object.keys(conf).map((key) => ` ${key}=${JSON.stringify(conf[key])}`);
  return `${name}${values.join('')}: ${groupedNumber(rate)}\n`;
}

/**
 * Sends a message to the parent process, or prints it if it is a report and there is no parent. Benchmark files that
 * relay the results of processes they started themselves call this directly.
 */
function sendResult(data) {
  if (process.send) {
    process.send(data, () => {
      if (data.type === 'report' && process.env.NODE_RUN_BENCHMARK_FN !== undefined) {
        setTimeout(() => process.exit(0), LINGER_MS).unref();
      }
    });
  } else if (data.conf && data.rate !== undefined) {
    process.stdout.write(reportLine(data));
  }
}

Object.assign(exports, { secondsText, reportLine, sendResult });
