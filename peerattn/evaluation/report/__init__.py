"""The comparison as table, page, workbook, files and sentences."""
