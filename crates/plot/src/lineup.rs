//! Which series stands at which place within every category.
//! A series has the same place, colour and marker in all categories, also where one lacks another.

/// The places of all series, in the order of their first appearance.
pub(crate) struct Lineup<'a> {
    /// Name, and how many of the same name stand before it in the same category.
    places: Vec<(&'a str, usize)>,
}

impl<'a> Lineup<'a> {
    /// Lines up the series of all categories.
    pub fn of<I: IntoIterator<Item = &'a str>>(categories: impl IntoIterator<Item = I>) -> Self {
        let mut places = Vec::new();
        for category in categories {
            for place in numbered(category) {
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        Self { places }
    }

    /// The places of the series of one category.
    pub fn slots(&self, category: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
        let slot = |place| {
            self.places
                .iter()
                .position(|known| *known == place)
                .unwrap_or(0)
        };
        numbered(category).into_iter().map(slot).collect()
    }

    /// The names, one per place.
    pub fn names(&self) -> Vec<&'a str> {
        self.places.iter().map(|(name, _)| *name).collect()
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

fn numbered<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut numbered: Vec<(&str, usize)> = Vec::new();
    for name in names {
        let before = numbered
            .iter()
            .filter(|(earlier, _)| *earlier == name)
            .count();
        numbered.push((name, before));
    }
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_keeps_its_place_where_another_is_missing() {
        let lineup = Lineup::of([vec!["old", "new"], vec!["new"]]);
        assert_eq!(lineup.names(), ["old", "new"]);
        assert_eq!(lineup.slots(["new"]), [1]);
    }

    #[test]
    fn equal_names_in_one_category_stand_side_by_side() {
        let lineup = Lineup::of([vec!["", ""]]);
        assert_eq!((lineup.len(), lineup.slots(["", ""])), (2, vec![0, 1]));
    }
}
