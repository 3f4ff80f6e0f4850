# Reference values for tests/it/distributions_r.rs: function, argument, degrees of freedom (binomial:
# trials and share), value.
say <- function(name, x, df, value) cat(sprintf("%s\t%.17g\t%.17g\t%.17g\n", name, x, df, value))
dfs <- c(1, 1.5, 2, 3, 4.7, 7.0032780392867613, 10, 14, 30, 58, 100, 198, 1000, 1e5, 1e7)
for (df in dfs) {
  for (q in c(.4999, .4, .25, .1, .05, .025, .005, .0005, 1e-5, 1e-9))
    say("qt", q, df, qt(q, df, lower.tail = FALSE))
  for (t in c(1e-3, .1, .5, 1, 2, 3, 5, 10, 40))
    say("pt", t, df, 2 * pt(-t, df))
}
for (q in c(.4999, .4, .25, .1, .025, .005, 1e-4, 1e-5, 1e-9, 1e-20, 1e-300))
  say("qnorm", q, 0, qnorm(q, lower.tail = FALSE))
for (z in c(-8, -3, -1, 0, .5, 1, 1.96, 3, 6, 8, 10, 20, 37)) say("pnorm", z, 0, pnorm(-z))
for (n in c(1, 8, 20, 72, 200, 1000, 20000)) for (share in c(.001, .01, .05, .3, .5, .9)) {
  name <- function(what) sprintf("%s %g", what, share)
  for (q in c(.001, .025, .5, .975, .999)) say(name("qbinom"), q, n, qbinom(q, n, share))
  for (z in c(-6, -2, 0, 2, 6)) {
    k <- round(n * share + z * sqrt(n * share * (1 - share)))
    if (k >= 0 && k < n) {
      say(name("pbinom"), k, n, pbinom(k, n, share))
      say(name("above"), k, n, pbinom(k, n, share, lower.tail = FALSE))
    }
  }
}
for (n in c(1, 20, 200, 5000)) for (k in unique(round(n * c(0, .02, .05, .5, 1)))) {
  ends <- binom.test(k, n)$conf.int
  say("low", k, n, ends[1])
  say("high", k, n, ends[2])
}
