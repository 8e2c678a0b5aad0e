"""LangChain's middleware as filters (`from_langchain`), and filters as LangChain's middleware (`as_langchain`)."""
