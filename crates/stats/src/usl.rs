//! Fits the Universal Scalability Law, which describes how throughput depends on concurrency.
//!
//! The law is X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) (N. J. Gunther, "A Simple
//! Capacity Model of Massively Parallel Transaction Systems", 1993): lambda is the throughput of
//! one worker alone, sigma the fraction of work that cannot overlap, kappa the cost of keeping each
//! pair of workers coherent. This module estimates these three parameters, and rejects poor fits;
//! [`power_law_exponent`] describes how any quantity grows with another. Start at [`fit_usl`].

use crate::describe::mean;

/// Minimum number of levels for three unknowns.
pub const MIN_LEVELS: usize = 6;

/// Minimum [`UslFit::r_squared`]: if the best curve explains less, the law does not apply.
pub const MIN_R_SQUARED: f64 = 0.9;

/// Maximum number of steps of the search.
const MAX_STEPS: usize = 500;

/// The search ends when a step moves every point of the curve by less than this fraction.
const CONVERGENCE_LIMIT: f64 = 1e-11;

/// The throughput measured at one level of concurrency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UslPoint {
    /// Number of concurrent workers.
    pub concurrency: f64,
    /// Throughput, in any unit.
    pub throughput: f64,
    /// Weight of its squared residual: the inverse of its variance, up to a factor.
    pub weight: f64,
}

/// A parameter with its standard error, which is `None` if the parameter is at a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UslParameter {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub error: Option<f64>,
}

/// The fitted law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UslFit {
    /// Throughput of one worker alone.
    pub lambda: UslParameter,
    /// Fraction that cannot overlap (contention), at least 0.
    pub sigma: UslParameter,
    /// Cost of coherency for each pair of workers, at least 0.
    pub kappa: UslParameter,
    /// Fraction of the weighted variance of the throughputs that the curve explains.
    pub r_squared: f64,
    /// Number of points that the law was fitted to.
    pub levels: usize,
}

/// Why there is no curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UslError {
    /// Fewer than [`MIN_LEVELS`] different levels.
    TooFewLevels {
        /// How many there are.
        levels: usize,
    },
    /// A concurrency, throughput or weight is not above zero.
    NotPositive,
    /// The least-squares search did not converge.
    NoFit,
    /// The curve explains less than [`MIN_R_SQUARED`].
    Poor {
        /// The fraction it explains.
        r_squared: f64,
    },
}

impl UslFit {
    /// Throughput at a concurrency.
    pub fn throughput_at(&self, concurrency: f64) -> f64 {
        model_throughput(&[self.lambda.value, self.sigma.value, self.kappa.value], concurrency)
    }

    /// The concurrency of the maximum throughput, sqrt((1 - sigma) / kappa). `None` if there is no
    /// distinct peak: the t interval of kappa at `confidence` includes 0, or sigma is at least 1.
    pub fn peak_concurrency(&self, confidence: f64) -> Option<f64> {
        let free_count = [self.lambda, self.sigma, self.kappa]
            .iter()
            .filter(|parameter| parameter.error.is_some())
            .count();
        let df = (self.levels - free_count) as f64;
        let t = crate::distribution::student_t::upper_quantile(0.5 * (1.0 - confidence), df);
        let is_known = self.kappa.value - t * self.kappa.error? > 0.0;
        (is_known && self.sigma.value < 1.0)
            .then(|| ((1.0 - self.sigma.value) / self.kappa.value).sqrt())
    }
}

/// Fits the law by weighted least squares with sigma and kappa of at least 0.
///
/// Starts from the linearized law (N / X is linear in N - 1 and N (N - 1)) and continues by the
/// Levenberg-Marquardt method (SIAM J. Appl. Math. 11, 1963). If sigma or kappa would be negative,
/// the best curve has this parameter at zero, so the search is repeated with the parameter fixed at
/// zero. Standard errors are as in R's `nls`: residual variance times the diagonal of the inverse
/// of J'WJ, over the free parameters.
///
/// # Errors
/// Returns a [`UslError`] if the data cannot support a curve.
pub fn fit_usl(points: &[UslPoint]) -> Result<UslFit, UslError> {
    let mut levels: Vec<f64> = points.iter().map(|point| point.concurrency).collect();
    levels.sort_unstable_by(f64::total_cmp);
    levels.dedup();
    if levels.len() < MIN_LEVELS {
        let levels = levels.len();
        return Err(UslError::TooFewLevels { levels });
    }
    let is_usable = |value: f64| value > 0.0 && value.is_finite();
    let are_usable = points.iter().all(|point| {
        is_usable(point.concurrency) && is_usable(point.throughput) && is_usable(point.weight)
    });
    if !are_usable {
        return Err(UslError::NotPositive);
    }
    let usl = least_squares(points).ok_or(UslError::NoFit)?;
    if usl.r_squared >= MIN_R_SQUARED {
        Ok(usl)
    } else {
        // `r_squared` is NaN or minus infinity if all throughputs are equal, because there is
        // nothing to explain.
        Err(UslError::Poor { r_squared: usl.r_squared })
    }
}

/// lambda, sigma, kappa.
type UslParameters = [f64; 3];

/// Which parameters are free; the others are 0.
type FreeParameters = [bool; 3];

fn least_squares(points: &[UslPoint]) -> Option<UslFit> {
    // Try first with all parameters free: if the result is within the bounds, no curve with a
    // parameter at its bound can be better.
    const FACES: [&[FreeParameters]; 2] =
        [&[[true, true, true]], &[[true, true, false], [true, false, true], [true, false, false]]];
    let is_within_bounds =
        |fit: &(UslParameters, FreeParameters)| fit.0.iter().all(|value| *value >= 0.0);
    let best_fit = |faces: &[FreeParameters]| {
        let fits =
            faces.iter().filter_map(|free| Some((minimize_residuals(points, *free)?, *free)));
        fits.filter(is_within_bounds).min_by(|one, other| {
            residual_sum(points, &one.0).total_cmp(&residual_sum(points, &other.0))
        })
    };
    let (parameters, free) = FACES.iter().find_map(|faces| best_fit(faces))?;
    Some(describe_fit(points, &parameters, free))
}

fn model_throughput(parameters: &UslParameters, n: f64) -> f64 {
    let [lambda, sigma, kappa] = parameters;
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

/// Partial derivatives with respect to lambda, sigma and kappa.
fn model_gradient(parameters: &UslParameters, n: f64) -> UslParameters {
    let [lambda, sigma, kappa] = parameters;
    let divisor = 1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0);
    let by_sigma = -lambda * n * (n - 1.0) / (divisor * divisor);
    [n / divisor, by_sigma, n * by_sigma]
}

/// Weighted sum of squared residuals; infinite where the curve has a pole among the data.
fn residual_sum(points: &[UslPoint], parameters: &UslParameters) -> f64 {
    let square = |point: &UslPoint| {
        let value = model_throughput(parameters, point.concurrency);
        if value > 0.0 { point.weight * (point.throughput - value).powi(2) } else { f64::INFINITY }
    };
    points.iter().map(square).sum()
}

/// Returns J'WJ and J'Wr, where J holds the derivatives of the curve, W the weights, and r the
/// residuals. For fixed parameters, the diagonal is 1.
fn normal_equations(
    points: &[UslPoint],
    parameters: &UslParameters,
    free: FreeParameters,
) -> (Matrix3, UslParameters) {
    let (mut matrix, mut side) = ([[0.0; 3]; 3], [0.0; 3]);
    for point in points {
        let slope = model_gradient(parameters, point.concurrency);
        let residual = point.throughput - model_throughput(parameters, point.concurrency);
        for row in (0..3).filter(|row| free[*row]) {
            side[row] += point.weight * slope[row] * residual;
            for column in (0..3).filter(|column| free[*column]) {
                matrix[row][column] += point.weight * slope[row] * slope[column];
            }
        }
    }
    for index in (0..3).filter(|index| !free[*index]) {
        matrix[index][index] = 1.0;
    }
    (matrix, side)
}

/// Solves N / X = (1 + sigma (N - 1) + kappa N (N - 1)) / lambda as a linear regression. The
/// weights follow from the error of N / X, which is N / X^2 times the error of X.
fn starting_values(points: &[UslPoint], free: FreeParameters) -> Option<UslParameters> {
    let (mut matrix, mut side) = ([[0.0; 3]; 3], [0.0; 3]);
    for point in points {
        let n = point.concurrency;
        let terms = [1.0, n - 1.0, n * (n - 1.0)];
        let weight = point.weight * (point.throughput * point.throughput / n).powi(2);
        for row in (0..3).filter(|row| free[*row]) {
            side[row] += weight * terms[row] * n / point.throughput;
            for column in (0..3).filter(|column| free[*column]) {
                matrix[row][column] += weight * terms[row] * terms[column];
            }
        }
    }
    for index in (0..3).filter(|index| !free[*index]) {
        matrix[index][index] = 1.0;
    }
    let [inverse_lambda, sigma, kappa] = multiply_matrix(&invert_matrix(&matrix)?, &side);
    (inverse_lambda > 0.0)
        .then(|| [1.0 / inverse_lambda, sigma / inverse_lambda, kappa / inverse_lambda])
}

/// The least-squares parameters, ignoring bounds. Only the parameters in `free` vary.
fn minimize_residuals(points: &[UslPoint], free: FreeParameters) -> Option<UslParameters> {
    // Where noise spoils the regression, start from the highest rate per worker.
    let rates_per_worker = points.iter().map(|point| point.throughput / point.concurrency);
    let fallback = [rates_per_worker.fold(0.0, f64::max), 0.0, 0.0];
    let start =
        starting_values(points, free).filter(|start| residual_sum(points, start).is_finite());
    let mut current = start.unwrap_or(fallback);
    let mut smallest_sum = residual_sum(points, &current);
    let mut damping = 1e-3;
    for _ in 0..MAX_STEPS {
        let (matrix, side) = normal_equations(points, &current, free);
        let mut damped = matrix;
        (0..3).for_each(|index| damped[index][index] *= 1.0 + damping);
        let step = multiply_matrix(&invert_matrix(&damped)?, &side);
        let next = [0, 1, 2].map(|index| current[index] + step[index]);
        let sum = residual_sum(points, &next);
        let moved = points.iter().map(|point| {
            let [from, to] =
                [&current, &next].map(|parameters| model_throughput(parameters, point.concurrency));
            (to / from - 1.0).abs()
        });
        // If there is hardly any damping and a step moves no point of the curve, the minimum is
        // reached.
        let has_converged = damping <= 1e-3 && moved.fold(0.0, f64::max) < CONVERGENCE_LIMIT;
        if sum < smallest_sum {
            (current, smallest_sum, damping) = (next, sum, f64::max(damping / 10.0, 1e-12));
        } else {
            damping *= 10.0;
        }
        if has_converged || damping > 1e12 {
            return Some(current);
        }
    }
    None
}

fn describe_fit(points: &[UslPoint], parameters: &UslParameters, free: FreeParameters) -> UslFit {
    let count = free.iter().filter(|is_free| **is_free).count();
    let residuals = residual_sum(points, parameters);
    let variance = residuals / (points.len() - count) as f64;
    let covariance = invert_matrix(&normal_equations(points, parameters, free).0);
    let parameter = |index: usize| UslParameter {
        value: parameters[index],
        error: covariance
            .filter(|_| free[index])
            .map(|covariance| (variance * covariance[index][index]).sqrt()),
    };
    let weights: f64 = points.iter().map(|point| point.weight).sum();
    let weighted = points.iter().map(|point| point.weight * point.throughput);
    let mean_throughput = weighted.sum::<f64>() / weights;
    let square = |point: &UslPoint| point.weight * (point.throughput - mean_throughput).powi(2);
    let total: f64 = points.iter().map(square).sum();
    UslFit {
        lambda: parameter(0),
        sigma: parameter(1),
        kappa: parameter(2),
        r_squared: 1.0 - residuals / total,
        levels: points.len(),
    }
}

// Linear algebra for three unknowns, which is not worth a dependency.

/// A 3x3 matrix, by rows.
type Matrix3 = [[f64; 3]; 3];

/// The inverse of a symmetric positive definite matrix; `None` if it is singular. Rows and columns
/// are first scaled to a unit diagonal: throughputs and fractions differ by many powers of ten.
fn invert_matrix(matrix: &Matrix3) -> Option<Matrix3> {
    let scale = [0, 1, 2].map(|index| matrix[index][index].sqrt());
    if scale.iter().any(|scale| scale.is_nan() || *scale <= 0.0) {
        return None;
    }
    let mut scaled = *matrix;
    for (row, line) in scaled.iter_mut().enumerate() {
        for (column, cell) in line.iter_mut().enumerate() {
            *cell /= scale[row] * scale[column];
        }
    }
    let cofactor = |row: usize, column: usize| {
        let [r1, r2] = [(row + 1) % 3, (row + 2) % 3];
        let [c1, c2] = [(column + 1) % 3, (column + 2) % 3];
        scaled[r1][c1] * scaled[r2][c2] - scaled[r1][c2] * scaled[r2][c1]
    };
    let determinant: f64 = (0..3).map(|index| scaled[0][index] * cofactor(0, index)).sum();
    if determinant.is_nan() || determinant <= 1e-14 {
        return None;
    }
    let mut inverse = [[0.0; 3]; 3];
    for (row, line) in inverse.iter_mut().enumerate() {
        for (column, cell) in line.iter_mut().enumerate() {
            *cell = cofactor(column, row) / determinant / (scale[row] * scale[column]);
        }
    }
    Some(inverse)
}

/// Matrix times column.
fn multiply_matrix(matrix: &Matrix3, column: &[f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(column).map(|(a, b)| a * b).sum())
}

// The scaling exponent of any quantity: the least-squares line in logarithms.

/// Exponent of the power law y = factor x^exponent: the slope of the least-squares line through
/// (ln x, ln y). 1 is linear, 0 constant.
///
/// `None` unless there are 2 different x, all numbers are positive, and the lengths are equal.
pub fn power_law_exponent(x: &[f64], y: &[f64]) -> Option<f64> {
    let positive = |values: &[f64]| values.iter().all(|v| *v > 0.0 && v.is_finite());
    if x.len() != y.len() || !positive(x) || !positive(y) {
        return None;
    }
    let logs = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<f64>>();
    let (x, y) = (logs(x), logs(y));
    let (mean_x, mean_y) = (mean(&x), mean(&y));
    let xx: f64 = x.iter().map(|x| (x - mean_x) * (x - mean_x)).sum();
    let xy: f64 = x.iter().zip(&y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    // If all x are equal, or there are none, xx is 0 and the line has no slope.
    (xx > 0.0).then_some(xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_is_found_exactly() {
        let x = [1.0, 2.0, 8.0, 64.0];
        let y = x.map(|x: f64| 3.0 * x.powf(-0.75));
        assert!((power_law_exponent(&x, &y).unwrap() + 0.75).abs() < 1e-14);
    }

    /// R 4.2.2: `m <- lm(log(y) ~ log(x)); coef(m)`.
    #[test]
    fn a_noisy_power_law_equals_that_of_r() {
        let (x, y) = ([16.0, 64.0, 256.0, 1024.0], [5.1, 14.0, 70.0, 190.0]);
        let exponent = power_law_exponent(&x, &y).unwrap();
        assert!((exponent / 0.8990001589313901 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_power_law_needs_two_distinct_positive_points() {
        assert_eq!(power_law_exponent(&[2.0, 2.0], &[1.0, 3.0]), None);
        assert_eq!(power_law_exponent(&[1.0, 0.0], &[1.0, 3.0]), None);
        assert_eq!(power_law_exponent(&[1.0], &[1.0, 3.0]), None);
        assert_eq!(power_law_exponent(&[], &[]), None);
    }
}
