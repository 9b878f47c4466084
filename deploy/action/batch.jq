# The facts of a summary, of what `truezero check` ($check), `truezero batch` ($batch) and `truezero card` ($card) say.
$check[0] as $check | $batch[0] as $batch
| {
    subject: ["Batch", $batch.batch],
    valid: $check.valid,
    naive: ["unhealthy counted as 0", $batch.score_all],
    total: $batch.total,
    scoreable: $batch.scoreable,
    coverage: $batch.coverage,
    score_effective: $batch.score_effective,
    score_worst: $batch.score_worst,
    score_best: $batch.score_best,
    zeros: $batch.zeros,
    card: $card[0],
    objections: $check.lines,
    rerun: [$batch.retry[] | {id: .rollout_id, task, why: .reason}]
  }
