//! The lines on standard error that say how far the test is.

use std::io::{self, Write};

/// Below this number of requests there is no progress to tell, as in the original.
const FEW: u64 = 150;

/// The fewest requests between two lines.
const LEAST_STEP: u64 = 100;

/// The requests between two lines of a test that ends by time: a tenth of the 50 000 that the
/// original takes `-t` for.
const STEP_OF_TIME: u64 = 5000;

/// What was told so far.
#[derive(Debug)]
pub struct Progress {
    step: Option<u64>,
    told: u64,
}

impl Progress {
    /// Nothing yet of a test of so many requests, or of one that ends by time.
    pub fn new(requests: Option<u64>, is_wanted: bool) -> Progress {
        let step = match requests {
            Some(count) => (count > FEW).then(|| (count / 10).max(LEAST_STEP)),
            None => Some(STEP_OF_TIME),
        };
        Progress {
            step: step.filter(|_| is_wanted),
            told: 0,
        }
    }

    /// Whether there will be lines.
    pub fn is_told(&self) -> bool {
        self.step.is_some()
    }

    /// So many requests have come to an end. What cannot be written is not worth an abort.
    pub fn update(&mut self, complete: u64, out: &mut dyn Write) {
        let Some(step) = self.step else { return };
        while self.told + step <= complete {
            self.told += step;
            let _ = writeln!(out, "Completed {} requests", self.told);
        }
    }

    /// The test is over.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn finish(&mut self, complete: u64, out: &mut dyn Write) -> io::Result<()> {
        self.update(complete, out);
        match self.step {
            Some(_) => writeln!(out, "Finished {complete} requests"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(requests: Option<u64>, is_wanted: bool, at: &[u64]) -> String {
        let mut out = Vec::new();
        let mut progress = Progress::new(requests, is_wanted);
        let (last, before) = at.split_last().unwrap();
        for complete in before {
            progress.update(*complete, &mut out);
        }
        progress.finish(*last, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_lines_are_those_of_the_original() {
        let recorded = "Completed 100 requests\nCompleted 200 requests\nFinished 200 requests\n";
        assert_eq!(told(Some(200), true, &[40, 199, 200]), recorded);
        assert_eq!(told(Some(200), true, &[200]), recorded);
        assert_eq!(told(Some(200), false, &[200]), "");
        assert_eq!(told(Some(150), true, &[150]), "");
        // Recorded from `ab -t 1`.
        let timed = "Completed 5000 requests\nFinished 5146 requests\n";
        assert_eq!(told(None, true, &[5146]), timed);
    }
}
