# Welch's analysis of variance: Rscript welch-anova.R > welch-anova.tsv (R 4.2.2)
# A line: groups (values by commas, groups by semicolons), F, the degrees of freedom, p.
set.seed(20)
line <- function(groups) {
  values <- unlist(groups)
  group <- factor(rep(seq_along(groups), lengths(groups)))
  test <- oneway.test(values ~ group)
  written <- sapply(groups, function(g) paste(sprintf("%.17g", g), collapse = ","))
  cat(sprintf("%s\t%.17g\t%.17g\t%.17g\t%.17g\n", paste(written, collapse = ";"), test$statistic,
              test$parameter[1], test$parameter[2], test$p.value))
}
for (k in c(2, 3, 5, 8, 16)) for (n in c(2, 4, 8)) for (apart in c(0, .02, .3))
  line(lapply(1:k, function(i) rnorm(n + i %% 3, apart * (i %% 2), .03 * exp(rnorm(1) / 2))))
