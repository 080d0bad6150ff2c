//! Text scores: computes the scores of entries from their texts, after the index has found those with a rare word.

use posthouse_time::Moment;
use posthouse_wire::TenantId;
use rusqlite::params;

use super::found_rows;
use crate::Fault;
use crate::data::DataFound;
use crate::sqlite::Sqlite;
use crate::sqlite::data_index::{IndexHit, RareWordTexts, TextScore};

/// The most bytes of texts that are scored for one search, which takes about 10 ms.
const SCORED_BYTES: usize = 2 * 1024 * 1024;

impl Sqlite {
    /// The best of these entries by BM25. Of equal ones, the newer comes first. None if their texts are too long, or
    /// have characters that are not known yet.
    pub(super) async fn best_by_text(
        &self,
        tenant: &TenantId,
        texts: RareWordTexts,
        now: Moment,
        limit: u32,
    ) -> Result<Option<DataFound>, Fault> {
        let (of, tokenizer) = (tenant.clone(), self.indexes.tokenizer());
        self.read(move |db| {
            let mut content_of =
                db.prepare_cached("SELECT content FROM data WHERE seq = ?1 AND tenant = ?2")?;
            let (mut hits, mut bytes) = (Vec::new(), 0);
            for &seq in &texts.entries {
                let mut rows = content_of.query(params![seq, of.as_str()])?;
                // An entry that was deleted meanwhile is left out.
                let Some(row) = rows.next()? else { continue };
                let content = row.get_ref(0)?.as_str()?;
                bytes += content.len();
                if bytes > SCORED_BYTES {
                    return Ok(None);
                }
                match texts.bm25.score(content, &tokenizer)? {
                    TextScore::Match(score) => hits.push((score, seq)),
                    TextScore::NoMatch => {}
                    TextScore::Unknown => return Ok(None),
                }
            }
            hits.sort_unstable_by(|(score, seq), (other_score, other_seq)| {
                score.total_cmp(other_score).then(other_seq.cmp(seq))
            });
            hits.truncate(limit as usize);
            let hits: Vec<_> =
                hits.into_iter().map(|(score, seq)| IndexHit { seq, score: Some(score) }).collect();
            found_rows(db, &of, &hits, now).map(Some)
        })
        .await
    }
}
