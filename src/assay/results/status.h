// How a row and a run ended, and what an audit found.
#pragma once

#include <span>

#include "assay/results/named.h"

namespace assay {

enum class RowStatus { ok, error };
inline constexpr int kRowStatuses = static_cast<int>(RowStatus::error) + 1;
std::span<const Named<RowStatus>> row_statuses();
std::string_view name_of(RowStatus status);

enum class RunStatus { complete, interrupted };
inline constexpr int kRunStatuses = static_cast<int>(RunStatus::interrupted) + 1;
std::span<const Named<RunStatus>> run_statuses();
std::string_view name_of(RunStatus status);

// Compares two settings that must give the same result.
enum class AuditVerdict { equal, within_tolerance, differs_by_definition, differs };
inline constexpr int kAuditVerdicts = static_cast<int>(AuditVerdict::differs) + 1;
std::span<const Named<AuditVerdict>> audit_verdicts();
std::string_view name_of(AuditVerdict verdict);

}  // namespace assay
