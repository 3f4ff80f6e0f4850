//! Which hook belongs to which code: the n-th of a kind to the n-th code, wherever both stand; `*_all` to those that are
//! left.

use super::Piece;

/// Hooks of one kind, as typed.
#[derive(Debug, Default)]
pub struct Hooks<'a> {
    /// One for each code, in their order.
    pub each: Vec<&'a str>,
    /// For the codes beyond those.
    pub all: Option<&'a str>,
}

impl<'a> Hooks<'a> {
    /// Gives them to the codes.
    ///
    /// # Errors
    /// There are more hooks than codes.
    pub fn attach(
        &self,
        option: &str,
        codes: &mut [Piece],
        place: fn(&mut Piece) -> &mut Option<String>,
    ) -> Result<(), String> {
        if let Some(surplus) = self.each.get(codes.len()) {
            return Err(format!(
                "--{option} '{surplus}' belongs to no code: it is number {} and there {} {}",
                codes.len() + 1,
                if codes.len() == 1 { "is" } else { "are" },
                match codes.len() {
                    1 => "one code".to_owned(),
                    count => format!("{count} codes"),
                }
            ));
        }
        for (at, code) in codes.iter_mut().enumerate() {
            let own = self.each.get(at).copied().or(self.all);
            *place(code) = own.map(str::to_owned);
        }
        Ok(())
    }
}
