//! A column together with the rule that fills it, so that the two cannot drift apart.

use super::table::{Audience, Cell, Column, Kind, Row, Table};

/// A column of a table whose rows are made from `T`.
pub struct Field<T> {
    /// The column.
    pub column: Column,
    /// Makes the column's cell of one row.
    pub cell: Box<dyn Fn(&T) -> Cell>,
}

impl<T> Field<T> {
    /// A field from its two parts.
    pub fn new(column: Column, cell: impl Fn(&T) -> Cell + 'static) -> Field<T> {
        Field {
            column,
            cell: Box::new(cell),
        }
    }

    /// A field for people alone, of plain text.
    pub fn people(
        key: &'static str,
        header: &str,
        kind: Kind,
        text: impl Fn(&T) -> String + 'static,
    ) -> Field<T> {
        let column = Column::new(key, header, kind).for_people();
        Field::new(column, move |item| Cell::text(text(item)))
    }

    /// A field for machines alone.
    pub fn machine(key: &'static str, cell: impl Fn(&T) -> Cell + 'static) -> Field<T> {
        Field::new(Column::machine(key), cell)
    }
}

/// A table with one row per item.
pub fn table_of<T>(name: &'static str, fields: Vec<Field<T>>, items: &[T]) -> Table {
    let rows = items.iter().map(|item| row_of(&fields, item)).collect();
    let columns = fields.into_iter().map(|field| field.column).collect();
    Table {
        columns,
        rows,
        ..Table::new(name)
    }
}

/// The names of the columns for machines, which are those that can be sorted by.
pub fn keys<T>(fields: &[Field<T>]) -> Vec<&'static str> {
    let columns = fields.iter().map(|field| &field.column);
    let machines = columns.filter(|column| column.audience != Audience::People);
    machines.map(|column| column.key).collect()
}

/// The row of one item.
pub fn row_of<T>(fields: &[Field<T>], item: &T) -> Row {
    Row::Cells(fields.iter().map(|field| (field.cell)(item)).collect())
}
