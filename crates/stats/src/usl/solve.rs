//! Three linear equations: all that the fit needs, so no library of linear algebra is.

/// Three rows of three columns.
pub type Matrix = [[f64; 3]; 3];

/// The inverse of a symmetric positive matrix; `None` where it has none. Rows and columns are scaled to ones
/// on the diagonal first: throughputs and shares differ by many powers of ten.
pub fn inverse(matrix: &Matrix) -> Option<Matrix> {
    let scale = [0, 1, 2].map(|at| matrix[at][at].sqrt());
    if scale.iter().any(|scale| scale.is_nan() || *scale <= 0.0) {
        return None;
    }
    let mut left = *matrix;
    for (row, line) in left.iter_mut().enumerate() {
        for (column, cell) in line.iter_mut().enumerate() {
            *cell /= scale[row] * scale[column];
        }
    }
    let cofactor = |row: usize, column: usize| {
        let [r1, r2] = [(row + 1) % 3, (row + 2) % 3];
        let [c1, c2] = [(column + 1) % 3, (column + 2) % 3];
        left[r1][c1] * left[r2][c2] - left[r1][c2] * left[r2][c1]
    };
    let determinant: f64 = (0..3).map(|at| left[0][at] * cofactor(0, at)).sum();
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
pub fn times(matrix: &Matrix, column: &[f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(column).map(|(a, b)| a * b).sum())
}
