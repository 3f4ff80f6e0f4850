# Reference values for tests/it/usl_r.rs: Rscript usl.R > usl.tsv
# Every data set: lines `point`, with concurrency, throughput and weight, then one line `fit` with lambda,
# sigma, kappa, their standard errors (NA at a bound) and the share of variance explained.
usl <- function(n, lambda, sigma, kappa) lambda * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))
# With derivatives: those by differences are too coarse for nls to end.
full <- deriv(~ l * n / (1 + s * (n - 1) + k * n * (n - 1)), c("l", "s", "k"), function(n, l, s, k) NULL)
contending <- deriv(~ l * n / (1 + s * (n - 1)), c("l", "s"), function(n, l, s) NULL)
coherent <- deriv(~ l * n / (1 + k * n * (n - 1)), c("l", "k"), function(n, l, k) NULL)
set.seed(20)
sets <- list(
  contention = list(n = 2^(0:8), p = c(1200, .06, 0), noise = .02),
  peaked = list(n = c(1, 2, 4, 8, 12, 16, 24, 32, 48, 64), p = c(955.2, .027, .0011), noise = .03),
  gentle = list(n = c(1:10, 15, 20, 30, 40), p = c(31.7, .004, .0004), noise = .015),
  coherency = list(n = c(1, 2, 4, 8, 16, 32, 64), p = c(8e4, 0, .0006), noise = .02),
  linear = list(n = c(1, 2, 4, 8, 16, 32), p = c(50, 0, 0), noise = .02))
say <- function(...) cat(..., sep = "\t", "\n")
exact <- function(x) sprintf("%.17g", x)
for (name in names(sets)) {
  set <- sets[[name]]
  n <- set$n
  x <- signif(usl(n, set$p[1], set$p[2], set$p[3]) * exp(rnorm(length(n), 0, set$noise)), 5)
  w <- 1 / x^2
  for (i in seq_along(n)) say(name, "point", exact(n[i]), exact(x[i]), exact(w[i]))
  control <- nls.control(tol = 1e-6, maxiter = 500)
  attempt <- function(formula, start, free) {
    m <- nls(formula, start = start, weights = w, control = control)
    list(p = coef(m)[free], se = summary(m)$coefficients[free, 2], rss = deviance(m))
  }
  all <- attempt(x ~ full(n, l, s, k), list(l = set$p[1], s = set$p[2], k = set$p[3]), c("l", "s", "k"))
  p <- setNames(all$p, c("l", "s", "k")); se <- setNames(all$se, c("l", "s", "k")); rss <- all$rss
  if (any(p < 0)) {
    faces <- list(attempt(x ~ contending(n, l, s), list(l = x[1], s = .02), c("l", "s")),
                  attempt(x ~ coherent(n, l, k), list(l = x[1], k = .0005), c("l", "k")))
    m <- lm(x ~ 0 + n, weights = w)
    faces <- c(faces, list(list(p = c(l = coef(m)[[1]]), se = c(l = summary(m)$coefficients[1, 2]), rss = deviance(m))))
    faces <- Filter(function(face) all(face$p >= 0), faces)
    best <- faces[[which.min(sapply(faces, function(face) face$rss))]]
    p <- se <- c(l = NA, s = NA, k = NA)
    p[] <- 0
    p[names(best$p)] <- best$p; se[names(best$p)] <- best$se; rss <- best$rss
  }
  r2 <- 1 - rss / sum(w * (x - weighted.mean(x, w))^2)
  do.call(say, c(list(name, "fit"), lapply(c(p, se, r2), exact)))
}
