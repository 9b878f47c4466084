# Markdown of the facts. Names come from whoever named a task: none of them is markup.
def plain: tostring | gsub("[\\x00-\\x1f\\x7f]+"; " ") | gsub("(?<mark>[!-/:-@\\[-`{-~])"; "\\\(.mark)");
def number: if . == null then "unknown" else . * 1000 | round / 1000 end;
def first_of($most): .[:$most][], (length - $most | if . > 0 then "… and \(.) more" else empty end);

"### \(.subject[0]) \(.subject[1] | plain): \(if .valid then "valid" else "not a valid measurement" end)",
"",
"| | |",
"|---|---|",
(if .parts // [] | length > 0 then
  (.parts[] | "| \(.name | plain) | reported \(.score_reported | number), " +
    "over what was measured **\(.score_effective | number)** (\(.scoreable) of \(.total)) |")
else
  "| score over what was measured | **\(.score_effective | number)** |",
  "| \(.naive[0]) | \(.naive[1] | number) |",
  "| bounds | \(.score_worst | number) to \(.score_best | number) |",
  "| coverage | \(.coverage | number) (\(.scoreable) of \(.total)) |"
end),
(if .zeros then
  "| zeros that are no measurements | \(.zeros.not_measured) of \(.zeros.reported)" +
  (if .zeros.not_measured > 0 then
    ": \([.zeros.by_cause | to_entries[] | "\(.value) \(.key | gsub("_"; " "))"] | join(", "))"
  else "" end) + " |"
else empty end),
"| to run again | \(.rerun | length) |",
(if .card then "| measurement card | export `\(.card.roots.export[:16])` |" else empty end),
(if .objections == [] then empty else "", ([.objections[] | "- \(plain)"] | first_of(50)) end),
(if .rerun == [] then empty else
  "", "<details><summary>Run again</summary>", "", "| run | task | why |", "|---|---|---|",
  ([.rerun[] | "| \(.id | plain) | \(.task // "" | plain) | \(.why // "" | plain) |"] | first_of(50)),
  "", "</details>"
end),
""
