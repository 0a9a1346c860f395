//! Measuring until the mean is known well enough.

/// Samples of one cell.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

/// The relative half-width of the interval that counts as confident.
const WANTED: f64 = 0.01;
/// No verdict on fewer samples.
const FEWEST: usize = 5;

impl Samples {
    /// Adds one.
    pub fn add(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them, in the order in which they came.
    pub fn all(&self) -> &[f64] {
        &self.0
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Half the width of the mean's 95 % confidence interval by Student's t.
    pub fn half_width(&self) -> f64 {
        let n = self.0.len();
        if n < 2 {
            return f64::INFINITY;
        }
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|sample| (sample - mean).powi(2)).sum();
        let deviation = (squares / (n - 1) as f64).sqrt();
        student_t(n - 1) * deviation / (n as f64).sqrt()
    }

    /// Whether the interval is within 1 % of the mean.
    pub fn is_confident(&self) -> bool {
        self.count() >= FEWEST && self.half_width() <= WANTED * self.mean()
    }
}

/// The 97.5 % quantile of Student's distribution.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0 => f64::INFINITY,
        1..=30 => TABLE[freedom - 1],
        // Within 0.3 % of the quantile from here on.
        _ => 1.96 + 2.5 / freedom as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(all: &[f64]) -> Samples {
        let mut samples = Samples::default();
        all.iter().for_each(|&sample| samples.add(sample));
        samples
    }

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // Mean 3, deviation sqrt(2.5), t(4) = 2.776.
        let half = samples(&[1.0, 2.0, 3.0, 4.0, 5.0]).half_width();
        assert!((half - 1.963).abs() < 0.001, "{half}");
        assert!((student_t(60) - 2.000).abs() < 0.006);
    }

    #[test]
    fn confidence_needs_five_close_samples() {
        assert!(!samples(&[1.0; 4]).is_confident());
        assert!(samples(&[1.0; 5]).is_confident());
        assert!(samples(&[1.0, 1.01, 0.99, 1.0, 1.0]).is_confident());
        assert!(!samples(&[1.0, 1.1, 0.9, 1.0, 1.0]).is_confident());
    }
}
