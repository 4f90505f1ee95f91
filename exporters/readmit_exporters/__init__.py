"""Getting spans out: to a collector, into a folder of OTLP JSON lines, or both.

Example:
    ```python
    import readmit_exporters

    readmit_exporters.configure(files="traces")
    readmit_exporters.configure(endpoint="http://localhost:4318", files="traces")
    ```
"""

from readmit_exporters._configure import Exporters, configure

__all__ = ["Exporters", "configure"]
