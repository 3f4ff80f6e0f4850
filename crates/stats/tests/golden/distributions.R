# Reference values for tests/it/distributions_r.rs: function, argument, degrees of freedom, value.
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
