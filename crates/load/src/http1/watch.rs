//! What verification wants to see of a response: the beginning of its body and a few header fields.
//! Measuring goes without: a [`super::Reply`] that is fed without a watch copies nothing.

use super::field::trim;

/// Keeps the first bytes of a body and the values of the fields that were named. Its memory is
/// reused from response to response.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    body: Vec<u8>,
    max_body_bytes: usize,
    fields: Vec<Field>,
}

#[derive(Debug, Clone)]
struct Field {
    name: &'static str,
    value: Vec<u8>,
    is_present: bool,
}

impl Watch {
    /// Keeps up to `max_body_bytes` of a body, and the fields of these names.
    pub fn new(max_body_bytes: usize, names: &[&'static str]) -> Watch {
        let fields = names.iter().map(|name| Field {
            name,
            value: Vec::new(),
            is_present: false,
        });
        Watch {
            body: Vec::with_capacity(max_body_bytes.min(64 * 1024)),
            max_body_bytes,
            fields: fields.collect(),
        }
    }

    /// The beginning of the body, without the framing of the chunked coding.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The value of a field, without the blanks around it; the first one if it was repeated. `None`
    /// if it was absent or not asked for.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let field = self
            .fields
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))?;
        field.is_present.then_some(field.value.as_slice())
    }

    /// Forgets the last response.
    pub(crate) fn clear(&mut self) {
        self.body.clear();
        for field in &mut self.fields {
            field.is_present = false;
            field.value.clear();
        }
    }

    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        let wanted = |field: &&mut Field| {
            !field.is_present && field.name.as_bytes().eq_ignore_ascii_case(name)
        };
        if let Some(field) = self.fields.iter_mut().find(wanted) {
            field.is_present = true;
            field.value.extend_from_slice(trim(value));
        }
    }

    pub(crate) fn data(&mut self, bytes: &[u8]) {
        let room = self.max_body_bytes - self.body.len();
        self.body.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}
