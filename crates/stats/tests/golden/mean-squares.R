# Quantiles of chi-squared and F: Rscript mean-squares.R > mean-squares.tsv (R 4.2.2)
for (p in c(1e-6, .025, .3, .5, .975)) for (a in c(1, 2, 7, 31, 94)) {
  cat(sprintf("chi2\t%g\t%d\t0\t%.17g\n", p, a, qchisq(p, a, lower.tail = FALSE)))
  for (b in c(1, 8, 32, 608)) cat(sprintf("f\t%g\t%d\t%d\t%.17g\n", p, a, b, qf(p, a, b, lower.tail = FALSE)))
}
