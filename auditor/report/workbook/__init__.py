"""The one place that writes cells. Only this package and the sheets know the Excel library.

Rows are streamed (openpyxl's write-only mode), so that ten thousand servers fit in memory; everything around
the rows (frozen panes, widths, print set-up) must be set before the first row, afterwards it is lost silently.
"""

from auditor.report.workbook.book import Book as Book
from auditor.report.workbook.cells import Column as Column
from auditor.report.workbook.cells import Put as Put
from auditor.report.workbook.page import Beside as Beside
from auditor.report.workbook.page import Layout as Layout
from auditor.report.workbook.page import Page as Page
