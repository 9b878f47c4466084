# The facts of a summary, of what `truezero audit` says.
INDEX(.false_zeros[], .false_points[]; .) as $false
| {
    subject: ["Audit of", .path],
    valid: ($false == {}),
    naive: ["as reported", .score_reported],
    total, scoreable, coverage, score_effective, score_worst, score_best,
    parts: (.parts | if length > 1 then . else [] end),
    objections: [.items[] | select($false[.id]) | "\(.id): \(.why)"],
    rerun: [.rerun.transient[] | {id, task, why: .fingerprint}]
  }
