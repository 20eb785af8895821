/* command_report.c: `sosmc report`. */
#include <unistd.h>

#include "commands.h"
#include "drafts/deblur.h"
#include "files/directory.h"
#include "files/memory.h"
#include "report/deblur_page.h"
#include "report/run_report.h"
#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "terminal/say_lock.h"

enum { SENTENCE = 1024 };

const char report_text[] = "sosmc report DIR\n\nWrites DIR/report.html and DIR/figures again from what the run left.\n";

int command_report(int argc, char **argv)
{
    static const flag_row table[] = {{.name = "help"}};
    flag_values v;
    char error[SENTENCE];
    int code;
    if (flags_read(&v, table, 1, 0, argc, argv, NULL, report_text, &code)) return code;
    if (v.operands != 1) return complain(SOSMC_EXIT_USAGE, "report takes one run directory; see 'sosmc help report'");
    run_lock lock = {.held = 0};
    code = access(v.operand, F_OK) == 0 ? say_lock(&lock, v.operand) : SOSMC_EXIT_OK;
    if (code != SOSMC_EXIT_OK) return code;
    if (memory_check("the report", run_report_need(v.operand), "", error, sizeof error)) {
        lock_give_back(&lock);
        return complain(SOSMC_EXIT_USAGE, "%s", error);
    }
    directory_sweep(v.operand, 1);
    int rc = deblur_owns(v.operand) ? deblur_report(v.operand, error, sizeof error)
                                    : run_report(v.operand, error, sizeof error);
    lock_give_back(&lock);
    if (rc == 0) return SOSMC_EXIT_OK;
    return complain(interrupt_requested() ? SOSMC_EXIT_INTERRUPTED : SOSMC_EXIT_IO, "%s", error);
}
