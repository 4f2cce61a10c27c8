#include "assay/results/status.h"

namespace assay {

namespace {

constexpr Named<RowStatus> kRowStatusTable[] = {
    {RowStatus::ok, "ok", "measured", "The case ran and has figures."},
    {RowStatus::error, "error", "failed", "The case failed; its reason says why."},
};
static_assert(std::size(kRowStatusTable) == kRowStatuses);

constexpr Named<RunStatus> kRunStatusTable[] = {
    {RunStatus::complete, "complete", "complete", "Every case ran or failed with a reason."},
    {RunStatus::interrupted, "interrupted", "interrupted",
     "The run was interrupted: cases that are not listed were not measured, or not to their end."},
};
static_assert(std::size(kRunStatusTable) == kRunStatuses);

constexpr Named<AuditVerdict> kAuditVerdictTable[] = {
    {AuditVerdict::equal, "equal", "equal", "Token ids and logits are equal to the bit."},
    {AuditVerdict::within_tolerance, "within tolerance", "within tolerance",
     "Logits differ by no more than the tolerance of the data type."},
    {AuditVerdict::differs_by_definition, "differs by definition", "differs by definition",
     "The scheme itself looks across the batch, so results may differ."},
    {AuditVerdict::differs, "differs", "differs", "Results differ although they must not."},
};
static_assert(std::size(kAuditVerdictTable) == kAuditVerdicts);

}  // namespace

std::span<const Named<RowStatus>> row_statuses() {
  return kRowStatusTable;
}
std::string_view name_of(RowStatus status) {
  return entry_of(row_statuses(), status).name;
}
std::span<const Named<RunStatus>> run_statuses() {
  return kRunStatusTable;
}
std::string_view name_of(RunStatus status) {
  return entry_of(run_statuses(), status).name;
}
std::span<const Named<AuditVerdict>> audit_verdicts() {
  return kAuditVerdictTable;
}
std::string_view name_of(AuditVerdict verdict) {
  return entry_of(audit_verdicts(), verdict).name;
}

}  // namespace assay
